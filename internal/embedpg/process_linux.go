package embedpg

import "syscall"

// processAttributes runs a process as account, apart from this one's terminal signals,
// and ends it when this process dies in any way.
func processAttributes(account *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: account, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}
