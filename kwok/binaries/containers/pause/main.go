// pause holds a pod's namespaces open: it sleeps, reaps orphans, and ends when it is told to.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Two channels: Go drops a signal that finds its channel full, and children must not cost us the order to end.
	ended, stop := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	for {
		reap() // first of all: a child may have ended before the signals were asked for
		select {
		case <-ended:
		case <-stop:
			return
		}
	}
}

// reap collects every child that has ended: one signal may stand for several.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 {
			return
		}
	}
}
