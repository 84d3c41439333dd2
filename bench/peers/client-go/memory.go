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

// growth is the largest growth in a list workload, in bytes an object.
const growth = 700

// markMemory gives back what is free, makes memory ready for so many objects, and forgets the peak so far, so that the
// next peak is the workload's own. It belongs right before the clock starts.
func markMemory(objects int) memoryMark {
	debug.FreeOSMemory()
	touchMemory(objects * growth)
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

// statusBytes reads one field of /proc/self/status; 0 where there is none.
func statusBytes(field string) int64 {
	file, err := os.Open("/proc/self/status")
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
