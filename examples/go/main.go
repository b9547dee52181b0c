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

var gateway = cmp.Or(os.Getenv("GATEWAY"), "http://127.0.0.1:8080")
var client = http.Client{Timeout: 30 * time.Second}

// answer has what is read of every operation; title, detail and type are a problem's (RFC 9457).
type answer struct {
	Message, Title, Detail, Type string
	Content                      struct{ Cid, IpnsCache string }
	Result                       struct{ Status, Reason string }
	Results                      []struct{ Cid, Name string }
}

// call returns what the service says, and ends the program with the words of a refusal.
func call(method, path string, query url.Values) (said answer) {
	for triesLeft := 4; ; triesLeft-- {
		request, err := http.NewRequest(method, gateway+path+"?"+query.Encode(), nil)
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set("x-api-key", cmp.Or(os.Getenv("CONTENT_GATEWAY_KEY"), "me"))
		response, err := client.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		err = json.NewDecoder(response.Body).Decode(&said)
		response.Body.Close()
		wait, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		switch {
		case response.StatusCode == http.StatusOK && err == nil:
			return said
		case triesLeft > 0 && wait > 0: // nothing was done: the same again
			time.Sleep(time.Duration(min(wait, 60)) * time.Second)
		case err != nil: // a proxy's page
			log.Fatal(response.Status, ": ", err)
		default:
			log.Fatalf("%s: %s (%s%s)", said.Title, said.Detail, gateway, said.Type)
		}
	}
}

func main() {
	log.SetFlags(0)
	domain := os.Args[1]
	content := call("GET", "/domain/resolve/"+url.PathEscape(domain), nil).Content
	cid := cmp.Or(content.Cid, content.IpnsCache)
	if cid == "" {
		log.Fatalf("%s has no content", domain)
	}
	fmt.Println(domain, "is", cid)
	fmt.Println(call("POST", "/ipfs/pin/add/"+cid, url.Values{"name": {domain}}).Message)
	for start := time.Now(); ; time.Sleep(time.Second / 2) {
		pin := call("GET", "/ipfs/pin/status/"+cid, nil).Result
		if pin.Status == "pinned" {
			break
		}
		if time.Since(start) > time.Minute {
			log.Fatalf("still %s: %s", pin.Status, cmp.Or(pin.Reason, "it is being fetched"))
		}
	}
	for _, pin := range call("GET", "/ipfs/pin/ls", url.Values{"status": {"pinned"}}).Results {
		fmt.Println("-", pin.Cid, pin.Name)
	}
}
