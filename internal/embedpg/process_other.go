//go:build !linux

package embedpg

import "syscall"

// processAttributes runs a process as account, apart from this one's terminal signals.
func processAttributes(account *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: account, Setpgid: true}
}
