// Sixteen calls by the client that oapi-codegen generates: asked is URL, KEY and CID.
package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"time"

	"example.test/driver/gateway"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func with(header, key string) gateway.ClientOption {
	return gateway.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set(header, key)
		return nil
	})
}

func refusal(problem *gateway.Problem) []any {
	return []any{problem.Status, problem.Code, problem.Detail == problem.Message}
}

func main() {
	url, key, cid := os.Args[1], os.Args[2], os.Args[3]
	client := must(gateway.NewClientWithResponses(url, with("x-api-key", key)))
	bearer := must(gateway.NewClientWithResponses(url, with("authorization", "Bearer "+key)))
	stranger := must(gateway.NewClientWithResponses(url, with("x-api-key", "nobody")))
	ctx := context.Background()
	resolve := func(domain string, coin *int) *gateway.ResolveDomainResponse {
		query := gateway.ResolveDomainParams{CoinType: coin}
		return must(client.ResolveDomainWithResponse(ctx, domain, &query))
	}
	list := func(states ...gateway.PinState) *gateway.PinList {
		return must(client.ListPinsWithResponse(ctx, &gateway.ListPinsParams{Status: &states})).JSON200
	}

	site, blog := resolve("site.test", nil).JSON200, resolve("blog.test", nil).JSON200
	ipfs := must(site.Content.ValueByDiscriminator()).(gateway.IpfsContent)
	ipns := must(blog.Content.ValueByDiscriminator()).(gateway.IpnsContent)
	started := must(client.StartIpnsResolutionWithResponse(ctx, "ipns://"+ipns.Name)).JSON200.Result

	kept := list(gateway.PinStatePinned, gateway.PinStateFailed).Results[0]
	others := list(gateway.PinStatePinning, gateway.PinStateUnpinned)
	before, after := kept.Timestamp.Add(time.Minute), kept.Timestamp.Add(-time.Minute)
	query := gateway.PsaListPinsParams{
		After:  &after,
		Before: &before,
		Status: &[]gateway.PsaStatus{gateway.PsaStatusPinned, gateway.PsaStatusFailed},
		Meta:   new(`{"commit":"3f2a9c1"}`),
	}
	found := []*string{}
	for _, pin := range must(bearer.PsaListPinsWithResponse(ctx, &query)).JSON200.Results {
		found = append(found, pin.Pin.Name)
	}

	named := gateway.AddPinParams{Name: new("site"), Meta: new(`{"app":"demo"}`)}
	added := must(client.AddPinWithResponse(ctx, cid, &named)).JSON200
	status := must(client.GetPinStatusWithResponse(ctx, cid)).JSON200.Result
	removed := must(client.RemovePinWithResponse(ctx, cid)).JSON200.Result

	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"version": must(client.GetVersionWithResponse(ctx)).JSON200.Version,
		"scopes":  must(client.GetKeyWithResponse(ctx)).JSON200.Result.Scopes,
		"site":    []any{ipfs.Cid, site.WalletAddress.Addr},
		"coin":    resolve("site.test", new(0)).JSON200.WalletAddress.Addr,
		"cafe":    resolve("café.test", nil).JSON200.WalletAddress.Addr,
		"blog":    []any{ipns.Name, started.Name},
		"missing": refusal(resolve("nobody.eth", nil).ApplicationproblemJSON404),
		"invalid": refusal(resolve("café_.test", nil).ApplicationproblemJSON400),
		"refused": refusal(must(stranger.GetKeyWithResponse(ctx)).ApplicationproblemJSON401),
		"kept":    []any{kept.Cid, kept.Name, kept.Meta, kept.Status},
		"at":      kept.Timestamp.UnixMilli(),
		"others":  []any{others.Count, len(others.Results)},
		"found":   found,
		"added":   []any{added.Message, added.Result.Cid},
		"status":  []any{status.Cid, status.Name, status.Meta},
		"removed": []any{removed.Cid, removed.Content},
	})
}
