package main

import (
	"runtime"
	"syscall"
	"time"
)

// The pace of a stall run's offers. Go's own time.Sleep is rounded up to a millisecond when nothing else happens, so
// the producer sleeps in the kernel, on a thread of its own whose timer slack is taken away. While it sleeps the other
// goroutines have both cores; a producer that spins instead would keep one of them from the consumer, and would
// measure itself. Only the last few microseconds are spent turning, for the wake-up to be exact.

const (
	sleepIfAhead = 50 * time.Microsecond
	wakeEarly    = 15 * time.Microsecond
)

// pacedThread binds the goroutine to its thread, and asks the kernel for exact wake-ups. The thread keeps that
// setting, so it must end with the goroutine: the lock is never undone.
func pacedThread() {
	runtime.LockOSThread()
	const setTimerSlack = 29 // PR_SET_TIMERSLACK, in nanoseconds
	// Where it is refused the default of 50 µs stays, which makes offers late but not fewer.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0)
}

// waitUntil returns at the given time since start, or at once when that has passed.
func waitUntil(start time.Time, intended time.Duration) {
	for {
		ahead := intended - time.Since(start)
		if ahead <= 0 {
			return
		}
		if ahead > sleepIfAhead {
			pause := syscall.NsecToTimespec(int64(ahead - wakeEarly))
			_ = syscall.Nanosleep(&pause, nil) // an early end is seen by the loop
		}
	}
}
