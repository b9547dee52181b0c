// Resolve a name, pin what it points at, and wait until it is pinned. Go, no packages.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

var (
	gateway = cmp.Or(os.Getenv("GATEWAY"), "http://127.0.0.1:8080")
	key     = cmp.Or(os.Getenv("CONTENT_GATEWAY_KEY"), "me")
	client  = http.Client{Timeout: 30 * time.Second}
)

// call fills answer with what the service says; it ends the program with the words of a refusal.
func call(method, path string, query url.Values, answer any) {
	for attempt := 1; ; attempt++ {
		request, err := http.NewRequest(method, gateway+path+"?"+query.Encode(), nil)
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set("x-api-key", key)
		response, err := client.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		defer response.Body.Close()
		body := json.NewDecoder(response.Body)
		if response.StatusCode == http.StatusOK {
			if err := body.Decode(answer); err != nil {
				log.Fatal(err)
			}
			return
		}
		var problem struct{ Type, Title, Detail string } // RFC 9457
		body.Decode(&problem)
		if response.StatusCode != http.StatusServiceUnavailable || attempt == 5 {
			log.Fatalf("%s: %s (%s%s)", problem.Title, problem.Detail, gateway, problem.Type)
		}
		seconds, _ := strconv.Atoi(cmp.Or(response.Header.Get("Retry-After"), "1"))
		time.Sleep(time.Duration(seconds) * time.Second)
	}
}

func main() {
	log.SetFlags(0)
	domain := os.Args[1]
	var resolution struct{ Content struct{ Cid, IpnsCache string } }
	call("GET", "/domain/resolve/"+url.PathEscape(domain), nil, &resolution)
	cid := cmp.Or(resolution.Content.Cid, resolution.Content.IpnsCache)
	if cid == "" {
		log.Fatalf("%s has no content", domain)
	}
	fmt.Println(domain, "is", cid)
	var added struct{ Message string }
	call("POST", "/ipfs/pin/add/"+cid, url.Values{"name": {domain}}, &added)
	fmt.Println(added.Message)
	var pin struct {
		Result struct {
			Status, Reason string
			Replicas       struct{ Pinned, Wanted int }
		}
	}
	for start := time.Now(); pin.Result.Status != "pinned"; time.Sleep(time.Second / 2) {
		call("GET", "/ipfs/pin/status/"+cid, nil, &pin)
		if time.Since(start) > time.Minute {
			log.Fatalf("still %s: %s", pin.Result.Status, pin.Result.Reason)
		}
	}
	fmt.Println("pinned by", pin.Result.Replicas.Pinned, "of", pin.Result.Replicas.Wanted)
	var list struct{ Results []struct{ Cid, Name string } }
	call("GET", "/ipfs/pin/ls", url.Values{"status": {"pinned"}}, &list)
	for _, listed := range list.Results {
		fmt.Println("-", listed.Cid, listed.Name)
	}
}
