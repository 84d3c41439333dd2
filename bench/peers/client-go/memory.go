package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
)

// memoryMark is the resident memory at the start of a measurement, and the way to its peak.
type memoryMark struct {
	start int64
	note  string
}

// What engines were measured to grow by from a clock's start to its peak, in bytes an object, under the GOGC of 400 that
// the benchmark sets: 50,000 generated objects, one second of stall and of readers.
const (
	listGrowth    = 1_000 // initial: informer 995, deltafifo 959, realfifo 342; relist: 973, 609, 349
	queueGrowth   = 2_400 // stall: deltafifo 2,407; slow-handler: informer 2,032; readers: realfifo 1,404
	indexGrowth   = 400   // queries: by namespace 357, of answers that nobody has collected yet
	keysGrowth    = 200   // workqueue: a backlog 154
	backlogGrowth = 8_200 // events: realfifo 8,123, since it keeps what its one consumer has no time for
)

// markMemory gives back what is free, makes memory ready for so many objects, and forgets the peak so far, so that the
// next peak is the workload's own. It belongs right before the clock starts.
func markMemory(objects, growth int) memoryMark {
	debug.FreeOSMemory()
	// Not more than half of what is there, for others too.
	touchMemory(min(objects*growth, int(fieldBytes("/proc/meminfo", "MemAvailable")/2)))
	var mark memoryMark
	// 5 resets the high-water mark to what is resident now. Some sandboxes do not let a process do that.
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		mark.note = "peak of the whole process: the high-water mark cannot be reset here"
	}
	mark.start = statusBytes("VmRSS")
	return mark
}

// touchMemory writes every page of fresh memory and gives it back: bench/src/warm.rs says why.
func touchMemory(bytes int) {
	memory, err := syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return // what follows is merely slower
	}
	for page := 0; page < bytes; page += 4096 {
		memory[page] = 1
	}
	_ = syscall.Munmap(memory)
}

// addTo reads the peak and writes both figures down.
func (m memoryMark) addTo(extra map[string]any) {
	extra["start_bytes"] = m.start
	extra["peak_bytes"] = statusBytes("VmHWM")
	if m.note != "" {
		extra["peak_note"] = m.note
	}
}

// statusBytes is one field of what the kernel says of this process.
func statusBytes(field string) int64 { return fieldBytes("/proc/self/status", field) }

// fieldBytes reads one field of such a file; 0 where there is none.
func fieldBytes(path, field string) int64 {
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		rest, found := strings.CutPrefix(lines.Text(), field+":")
		if !found {
			continue
		}
		var kilobytes int64
		if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
			return 0
		}
		return kilobytes * 1024
	}
	return 0
}
