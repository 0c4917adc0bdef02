//go:build tools

// Package tools names the programs that the end-to-end tests build from this module, so that
// `go mod tidy` keeps their dependencies.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
