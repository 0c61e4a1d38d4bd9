// The lab's app for Go: the same as app.py, behind the module collector/middleware/go.
//
//	app FD PLACES                             serves the listening socket FD, PLACES requests at once
//	/sleep/<seconds>?status=N&route=/NAME     holds a place that long
//	/ready                                    answered without the headers of Sojourn
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"time"

	sojourn "sojourn/middleware"
)

var routeForm = regexp.MustCompile(`^/[a-z0-9/_-]{1,60}$`)

func sleeper(slowdown float64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seconds, err := strconv.ParseFloat(r.PathValue("seconds"), 64)
		if err != nil || !(seconds >= 0 && seconds <= 86400) {
			http.Error(w, "seconds must be a number from 0 to 86400", http.StatusBadRequest)
			return
		}
		status := http.StatusOK
		if text := r.URL.Query().Get("status"); text != "" {
			if status, err = strconv.Atoi(text); err != nil || status < 200 || status > 599 {
				http.Error(w, "status must be from 200 to 599", http.StatusBadRequest)
				return
			}
		}
		if route := r.URL.Query().Get("route"); route != "" {
			if !routeForm.MatchString(route) {
				http.Error(w, "route must be a slash and a name", http.StatusBadRequest)
				return
			}
			sojourn.SetRoute(r.Context(), route)
		}
		time.Sleep(time.Duration(seconds * slowdown * float64(time.Second)))
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(status)
		fmt.Fprintf(w, "slept %g s\n", seconds)
	}
}

func main() {
	fd, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	places, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	slowdown, err := strconv.ParseFloat(os.Getenv("LAB_SLOWDOWN"), 64)
	if err != nil {
		slowdown = 1
	}
	listener, err := net.FileListener(os.NewFile(uintptr(fd), "listener"))
	if err != nil {
		log.Fatal(err)
	}
	app := http.NewServeMux()
	app.HandleFunc("GET /sleep/{seconds}", sleeper(slowdown))
	all := http.NewServeMux()
	all.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ready") })
	if os.Getenv("LAB_SILENT") == "1" {
		all.Handle("/", app)
	} else {
		all.Handle("/", sojourn.New(sojourn.Limit(places))(app))
	}
	log.Fatal(http.Serve(listener, all))
}
