package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// memoryMark is the resident memory at the start of a measurement, and the way to its peak.
type memoryMark struct {
	start int64
	note  string
}

// markMemory gives back what is free and forgets the peak so far, so that the next peak is the workload's own. It
// belongs right before the clock starts.
func markMemory() memoryMark {
	runtime.GC()
	debug.FreeOSMemory()
	var mark memoryMark
	// 5 resets the high-water mark to what is resident now. Some sandboxes do not let a process do that.
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		mark.note = "peak of the whole process: the high-water mark cannot be reset here"
	}
	mark.start = statusBytes("VmRSS")
	return mark
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
