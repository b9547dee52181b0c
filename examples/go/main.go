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
	"time"
)

var gateway = cmp.Or(os.Getenv("GATEWAY"), "http://127.0.0.1:8080")
var client = http.Client{Timeout: 30 * time.Second}

// answer is what is read of any answer; title, detail and type are a problem's (RFC 9457).
type answer struct {
	Message, Title, Detail, Type string
	Content                      struct{ Cid, IpnsCache string }
	Result                       struct{ Status, Reason string }
	Results                      []struct{ Cid, Name string }
}

// call returns what the service says, and ends the program with the words of a refusal.
func call(method, path string, query url.Values) (said answer) {
	request, err := http.NewRequest(method, gateway+path+"?"+query.Encode(), nil)
	check(err)
	request.Header.Set("x-api-key", cmp.Or(os.Getenv("CONTENT_GATEWAY_KEY"), "me"))
	response, err := client.Do(request)
	check(err)
	defer response.Body.Close()
	check(json.NewDecoder(response.Body).Decode(&said))
	if response.StatusCode != http.StatusOK { // after 503, try again in Retry-After seconds
		log.Fatalf("%s: %s (%s%s)", said.Title, said.Detail, gateway, said.Type)
	}
	return said
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	domain := os.Args[1]
	content := call("GET", "/domain/resolve/"+url.PathEscape(domain), nil).Content
	cid := cmp.Or(content.Cid, content.IpnsCache)
	if cid == "" {
		log.Fatalf("%s has no content", domain)
	}
	fmt.Println(domain, "is", cid)
	fmt.Println(call("POST", "/ipfs/pin/add/"+cid, url.Values{"name": {domain}}).Message)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second / 2) {
		pin := call("GET", "/ipfs/pin/status/"+cid, nil).Result
		if pin.Status == "pinned" {
			break
		} else if time.Now().After(end) {
			log.Fatalf("still %s: %s", pin.Status, pin.Reason)
		}
	}
	for _, pin := range call("GET", "/ipfs/pin/ls", url.Values{"status": {"pinned"}}).Results {
		fmt.Println("-", pin.Cid, pin.Name)
	}
}
