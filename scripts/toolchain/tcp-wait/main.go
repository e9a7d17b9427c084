// Tcp-wait ends with status 0 as soon as a host answers a TCP connection, whether it accepts
// or refuses it, and with status 1 when the time limit has run out, naming the last error.
//
//	tcp-wait [-limit 5m] [-every 1s] HOST:PORT
//
// It is the worker's init container: workers must not start before the master's name resolves
// and leads to it. An answer proves both, and unlike nslookup in a shell loop it needs no shell,
// and does not fail because one of the resolver's search domains doesn't answer. Whether the
// master listens already is not asked: torch tries again until it does, a program that listens on
// another port never would, and meanwhile the workers have started, too.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// attemptLimit bounds one try, name resolution included, so that a dropped packet costs
// seconds and not the kernel's own two minutes.
const attemptLimit = 3 * time.Second

func main() {
	limit := flag.Duration("limit", 5*time.Minute, "give up after this long")
	every := flag.Duration("every", time.Second, "pause between two tries")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: tcp-wait [-limit 5m] [-every 1s] HOST:PORT")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := wait(flag.Arg(0), *limit, *every); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// wait dials address until it answers. Its error names the address, the limit and the
// last failure; a changed failure is printed as it comes, so that the pod's log tells why
// it is still waiting.
func wait(address string, limit, every time.Duration) error {
	started := time.Now()
	said := ""
	for {
		connection, err := net.DialTimeout("tcp", address, attemptLimit)
		if err == nil {
			_ = connection.Close()
		}
		if err == nil || errors.Is(err, syscall.ECONNREFUSED) {
			fmt.Printf("%s answered after %s\n", address, time.Since(started).Round(time.Millisecond))
			return nil
		}
		if time.Since(started)+every > limit {
			return fmt.Errorf("%s did not answer within %s: %w", address, limit, err)
		}
		if err.Error() != said {
			said = err.Error()
			fmt.Printf("waiting for %s: %s\n", address, said)
		}
		time.Sleep(every)
	}
}
