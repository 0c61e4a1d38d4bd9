// The app of test_middleware_go.py: server ADDRESS LIMIT
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"

	sojourn "sojourn/middleware"
)

func main() {
	limit, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	mux.HandleFunc("GET /sleep", func(http.ResponseWriter, *http.Request) { time.Sleep(150 * time.Millisecond) })
	mux.HandleFunc("GET /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		sojourn.SetRoute(r.Context(), "/users/{id}")
		http.Error(w, "no such user", http.StatusNotFound)
	})
	mux.HandleFunc("GET /lazy", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "one ")
		w.(http.Flusher).Flush()
		time.Sleep(150 * time.Millisecond)
		io.WriteString(w, "two")
	})
	mux.HandleFunc("GET /panic", func(http.ResponseWriter, *http.Request) { panic("exploded") })
	measured := sojourn.New(sojourn.Limit(limit), sojourn.ServerTiming())
	log.Fatal(http.ListenAndServe(os.Args[1], measured(mux)))
}
