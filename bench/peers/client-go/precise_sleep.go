package main

import (
	"runtime"
	"syscall"
	"time"
)

// The pace of a stall run's offers. Go's time.Sleep is rounded up to a millisecond while the
// process is idle, so the producer sleeps in the kernel, on a thread of its own without timer
// slack. While it sleeps, the other goroutines have both cores. A producer that spins would take a
// core from the consumer, and would measure itself. It spins only for the last microseconds, so
// that it continues on time.

const (
	sleepIfAhead = 50 * time.Microsecond
	wakeEarly    = 15 * time.Microsecond
)

// pacedThread locks the goroutine to its thread, and requests exact wake-ups from the kernel. The
// thread keeps that setting, so it must end with the goroutine: the lock is never released.
func pacedThread() {
	runtime.LockOSThread()
	const setTimerSlack = 29 // PR_SET_TIMERSLACK, in nanoseconds
	// If the kernel refuses, the default slack of 50 µs makes offers late, but not fewer.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0)
}

// waitUntil blocks until the given time since start, and returns at once if that has passed.
func waitUntil(start time.Time, intended time.Duration) {
	for {
		ahead := intended - time.Since(start)
		if ahead <= 0 {
			return
		}
		if ahead > sleepIfAhead {
			pause := syscall.NsecToTimespec(int64(ahead - wakeEarly))
			_ = syscall.Nanosleep(&pause, nil) // the loop handles an early end
		}
	}
}
