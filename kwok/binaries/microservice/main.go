// microservice stands for one container of an application: a request costs CPU time, holds memory, and calls
// other services. With -burn it has no requests and follows a plan of CPU use instead.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "microservice:", err)
		os.Exit(1)
	}
}

func run() error {
	var settings Settings
	port := flag.Int("port", 8080, "on the loopback")
	cgroups := flag.String("cgroups", "", "directories to join first, with commas")
	calls := flag.String("calls", "", "ports to call: 81,82@0.5;83 is 81 and, for half of the requests, 82 together, then 83")
	plan := flag.String("burn", "", "no server: cores@seconds, with commas, again and again")
	flag.Float64Var(&settings.CPUMicroseconds, "cpu-us", 500, "mean CPU time of a request")
	flag.Float64Var(&settings.Share, "share", 1, "of a core that a request uses at most: the CPU of a slower machine")
	flag.IntVar(&settings.WaitMilliseconds, "wait-ms", 0, "a request waits for others without using CPU, half before and half after its work")
	flag.Float64Var(&settings.Spread, "spread", 0.5, "standard deviation of its logarithm")
	flag.IntVar(&settings.BaseMiB, "base-mib", 0, "held from the start, every page written")
	flag.IntVar(&settings.RequestKiB, "request-kib", 0, "held by each request")
	flag.IntVar(&settings.GarbageMiB, "garbage-mib", 0, "answered requests give their memory back together, when it is so much")
	flag.Uint64Var(&settings.Seed, "seed", 1, "of what is drawn for each request")
	flag.Parse()
	for _, directory := range strings.FieldsFunc(*cgroups, func(r rune) bool { return r == ',' }) {
		// Before any memory is held: what a process has is not moved with it.
		if err := os.WriteFile(filepath.Join(directory, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			return err
		}
	}
	if *plan != "" {
		steps, err := readPlan(*plan)
		if err != nil {
			return err
		}
		follow(steps)
	}
	var err error
	if settings.Calls, err = readCalls(*calls); err != nil {
		return err
	}
	service := newService(settings)
	return http.ListenAndServe(fmt.Sprintf("127.0.0.1:%d", *port), service)
}
