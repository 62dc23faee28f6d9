// The peer of grpc-go for tests/grpc/go.rs: a server with the interop service and the health service, and the interop client.
//
//	peer server                  prints its port; lines of its input, `serving NAME` or `not_serving NAME`, change its health
//	peer web KIND                serves HTTP over TLS (`h2`, `h1` or `both`), or HTTP/2 without (`h2c`), for tests/http2_peers.rs; prints its port
//	peer client ADDRESS CASE...  runs interop cases over one connection and prints each that went well
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "client" {
		client(os.Args[2], os.Args[3:])
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "web" {
		web(os.Args[2])
		return
	}
	server()
}

func server() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	healths := health.NewServer()
	healthpb.RegisterHealthServer(server, healths)
	go func() { log.Fatal(server.Serve(listener)) }()
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	// Its end is the end of the test.
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		word, name, _ := strings.Cut(input.Text(), " ")
		serving := healthpb.HealthCheckResponse_NOT_SERVING
		if word == "serving" {
			serving = healthpb.HealthCheckResponse_SERVING
		}
		healths.SetServingStatus(name, serving)
		fmt.Println(word)
	}
}

func client(address string, cases []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	connection, err := grpc.DialContext(ctx, address, grpc.WithBlock(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	service := testgrpc.NewTestServiceClient(connection)
	of := map[string]func(){
		"empty_unary":                 func() { interop.DoEmptyUnaryCall(ctx, service) },
		"large_unary":                 func() { interop.DoLargeUnaryCall(ctx, service) },
		"client_streaming":            func() { interop.DoClientStreaming(ctx, service) },
		"server_streaming":            func() { interop.DoServerStreaming(ctx, service) },
		"ping_pong":                   func() { interop.DoPingPong(ctx, service) },
		"empty_stream":                func() { interop.DoEmptyStream(ctx, service) },
		"timeout_on_sleeping_server":  func() { interop.DoTimeoutOnSleepingServer(ctx, service) },
		"cancel_after_begin":          func() { interop.DoCancelAfterBegin(ctx, service) },
		"cancel_after_first_response": func() { interop.DoCancelAfterFirstResponse(ctx, service) },
		"status_code_and_message":     func() { interop.DoStatusCodeAndMessage(ctx, service) },
		"special_status_message":      func() { interop.DoSpecialStatusMessage(ctx, service) },
		"custom_metadata":             func() { interop.DoCustomMetadata(ctx, service) },
		"unimplemented_method":        func() { interop.DoUnimplementedMethod(ctx, connection) },
		"unimplemented_service": func() {
			interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(connection))
		},
	}
	for _, name := range cases {
		run, ok := of[name]
		if !ok {
			log.Fatalf("no case %s", name)
		}
		// A failure ends the process.
		run()
		fmt.Println(name)
	}
}
