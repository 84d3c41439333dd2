package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
)

// memoryMark is the resident memory at the start of a measurement.
type memoryMark struct {
	start int64
	note  string
}

// The growth of engines from the start of a measurement to its peak, in bytes an object, measured
// with the GOGC of 400 that the benchmark sets, 50,000 generated objects, and one second of stall
// and of readers.
const (
	// initial: informer 995, deltafifo 959, realfifo 342; relist: 973, 609, 349
	listGrowth = 1_000
	// stall: deltafifo 2,407; slow-handler: informer 2,032; readers: realfifo 1,404
	queueGrowth   = 2_400
	indexGrowth   = 400   // queries: by namespace 357, with results that are not collected yet
	keysGrowth    = 200   // workqueue: a backlog 154
	backlogGrowth = 8_200 // events: realfifo 8,123, which keeps the backlog of its only consumer
)

// markMemory returns free memory to the system, touches the memory that the measurement will use,
// and resets the peak. Call it immediately before the measurement starts.
func markMemory(objects, growth int) memoryMark {
	debug.FreeOSMemory()
	// At most half of the available memory, because other processes need memory, too.
	touchMemory(min(objects*growth, int(fieldBytes("/proc/meminfo", "MemAvailable")/2)))
	var mark memoryMark
	// Writing 5 resets the peak to the current resident memory. Some sandboxes do not allow it.
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		mark.note = "peak of the whole process: the high-water mark cannot be reset here"
	}
	mark.start = statusBytes("VmRSS")
	return mark
}

// touchMemory writes every page of fresh memory, and frees it. bench/src/warm.rs explains why.
func touchMemory(bytes int) {
	memory, err := syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return // the measurement is then slower
	}
	for page := 0; page < bytes; page += 4096 {
		memory[page] = 1
	}
	_ = syscall.Munmap(memory)
}

// addTo reads the peak, and adds the start and the peak.
func (m memoryMark) addTo(extra map[string]any) {
	extra["start_bytes"] = m.start
	extra["peak_bytes"] = statusBytes("VmHWM")
	if m.note != "" {
		extra["peak_note"] = m.note
	}
}

// statusBytes returns a field of this process's status, in bytes.
func statusBytes(field string) int64 { return fieldBytes("/proc/self/status", field) }

// fieldBytes returns a field of such a file, in bytes; 0 if it is missing.
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
