// Ten calls by the client that oapi-codegen generates: asked is URL, KEY and CID.
package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"

	"example.test/driver/gateway"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func with(key string) gateway.ClientOption {
	return gateway.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("x-api-key", key)
		return nil
	})
}

func main() {
	url, key, cid := os.Args[1], os.Args[2], os.Args[3]
	client := must(gateway.NewClientWithResponses(url, with(key)))
	stranger := must(gateway.NewClientWithResponses(url, with("nobody")))
	ctx := context.Background()
	resolve := func(domain string, coin *int) *gateway.ResolveDomainResponse {
		return must(client.ResolveDomainWithResponse(ctx, domain, &gateway.ResolveDomainParams{CoinType: coin}))
	}

	site := resolve("site.test", nil).JSON200
	content := must(site.Content.ValueByDiscriminator()).(gateway.IpfsContent)
	missing := resolve("nobody.eth", nil).ApplicationproblemJSON404
	refused := must(stranger.GetKeyWithResponse(ctx)).ApplicationproblemJSON401
	bitcoin := 0
	name, meta := "site", `{"commit":"3f2a9c1"}`
	added := must(client.AddPinWithResponse(ctx, cid, &gateway.AddPinParams{Name: &name, Meta: &meta})).JSON200
	status := must(client.GetPinStatusWithResponse(ctx, cid)).JSON200.Result
	states := []gateway.PinState{
		gateway.PinStateQueued, gateway.PinStatePinning, gateway.PinStatePinned,
		gateway.PinStateFailed, gateway.PinStateUnpinned,
	}
	listed := must(client.ListPinsWithResponse(ctx, &gateway.ListPinsParams{Status: &states})).JSON200.Results[0]
	removed := must(client.RemovePinWithResponse(ctx, cid)).JSON200.Result

	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"version": must(client.GetVersionWithResponse(ctx)).JSON200.Version,
		"scopes":  must(client.GetKeyWithResponse(ctx)).JSON200.Result.Scopes,
		"site":    []any{content.Cid, site.WalletAddress.Addr},
		"coin":    resolve("site.test", &bitcoin).JSON200.WalletAddress.Addr,
		"cafe":    resolve("café.test", nil).JSON200.WalletAddress.Addr,
		"missing": []any{missing.Status, missing.Code},
		"refused": []any{refused.Status, refused.Code},
		"added":   []any{added.Message, added.Result.Cid},
		"status":  []any{status.Cid, status.Name, status.Replicas.Pinned >= 0},
		"listed":  []any{listed.Name, listed.Meta, listed.Status.Valid()},
		"removed": removed.Content,
	})
}
