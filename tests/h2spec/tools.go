//go:build tools

// Package tools names the program that go.mod is for, so that go.sum covers all of it.
package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
