package main

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Usage is what the decision (setup and solve) took of the machine.
type Usage struct {
	// LoadedRSS is the resident memory after the snapshot was loaded, garbage given back.
	LoadedRSS uint64 `json:"loadedRssBytes"`
	// PeakRSS is the highest resident memory from there on.
	PeakRSS uint64 `json:"peakRssBytes"`
	// Allocations and AllocatedBytes count heap objects made by the decision, freed ones too.
	Allocations    uint64 `json:"allocations"`
	AllocatedBytes uint64 `json:"allocatedBytes"`
}

type usageStart struct {
	loaded   uint64
	counters runtime.MemStats
}

// beforeDecision hands what loading left behind back to the system, so that the decision does not
// hide in it, and restarts the kernel's high-water mark.
func beforeDecision() usageStart {
	debug.FreeOSMemory()
	s := usageStart{loaded: procStatus("VmRSS:")}
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	runtime.ReadMemStats(&s.counters)
	return s
}

func (s usageStart) afterDecision() Usage {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return Usage{
		LoadedRSS: s.loaded, PeakRSS: procStatus("VmHWM:"),
		Allocations: now.Mallocs - s.counters.Mallocs, AllocatedBytes: now.TotalAlloc - s.counters.TotalAlloc,
	}
}

// procStatus reads a size from /proc/self/status; 0 where there is none.
func procStatus(name string) uint64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok {
			kib, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			return kib * 1024
		}
	}
	return 0
}
