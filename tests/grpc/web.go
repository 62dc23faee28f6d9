// Servers of HTTP by Go's own library, for tests/http2_peers.rs. Certificate and key are named by CERTIFICATE and KEY.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"
)

// GET says who answers and in what; POST gives the body back piece by piece, and its length as a trailer.
func answer(reply http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodGet {
		fmt.Fprintf(reply, "go %s", request.Proto)
		return
	}
	reply.Header().Set("Trailer", "X-Length")
	reply.WriteHeader(http.StatusOK)
	sum, piece := 0, make([]byte, 10000)
	for {
		read, err := request.Body.Read(piece)
		sum += read
		if _, gone := reply.Write(piece[:read]); gone != nil {
			return
		}
		reply.(http.Flusher).Flush()
		if err == io.EOF {
			break
		} else if err != nil {
			return
		}
	}
	reply.Header().Set("X-Length", strconv.Itoa(sum))
}

func web(kind string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(answer)}
	// Its end is the end of the test.
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	switch kind {
	case "h2c":
		server.Handler = h2c.NewHandler(server.Handler, &http2.Server{})
		log.Fatal(server.Serve(listener))
	case "h1":
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	case "h2":
		if err := http2.ConfigureServer(server, nil); err != nil {
			log.Fatal(err)
		}
		server.TLSConfig.NextProtos = []string{"h2"}
	}
	log.Fatal(server.ServeTLS(listener, os.Getenv("CERTIFICATE"), os.Getenv("KEY")))
}
