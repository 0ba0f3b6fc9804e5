package main

import (
	"fmt"
	"strconv"
	"time"
)

// Settings of one function, from the environment.
type Settings struct {
	Port        int           // PORT
	ServiceTime time.Duration // SERVICE_TIME_MS: how long a request takes once it runs
	CPUTime     time.Duration // CPU_TIME_MS: the part of it that needs a core; a CPU limit stretches it
	MemoryMiB   int           // MEMORY_MIB: held from the start, every page written
	Concurrency int           // CONCURRENCY: requests that run at once; 0: no limit
	Queue       int           // QUEUE: requests that wait beyond that; others get 503
}

func readSettings(getenv func(string) string) (Settings, error) {
	var first error
	number := func(key string, fallback int) int {
		text := getenv(key)
		if text == "" {
			return fallback
		}
		value, err := strconv.Atoi(text)
		if (err != nil || value < 0) && first == nil {
			first = fmt.Errorf("%s: %q is not a whole number >= 0", key, text)
		}
		return value
	}
	settings := Settings{
		Port:        number("PORT", 8080),
		ServiceTime: time.Duration(number("SERVICE_TIME_MS", 100)) * time.Millisecond,
		CPUTime:     time.Duration(number("CPU_TIME_MS", 0)) * time.Millisecond,
		MemoryMiB:   number("MEMORY_MIB", 0),
		Concurrency: number("CONCURRENCY", 0),
		Queue:       number("QUEUE", 1000),
	}
	if first == nil && settings.CPUTime > settings.ServiceTime {
		first = fmt.Errorf("CPU_TIME_MS: %d is more than SERVICE_TIME_MS: %d",
			settings.CPUTime.Milliseconds(), settings.ServiceTime.Milliseconds())
	}
	return settings, first
}
