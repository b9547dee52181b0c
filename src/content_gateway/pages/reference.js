// The API reference: Swagger UI (swagger-ui/README.md) shows /spec, and calls this service only.

const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

SwaggerUIBundle({
  url: "/spec",
  dom_id: "#reference",
  deepLinking: false, // it puts a link into each operation's button, which no keyboard can reach
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
  syntaxHighlight: { activated: false }, // its colours are too pale to read
  validatorUrl: null, // else the page asks a server elsewhere
});

// It leaves choices without a name for readers of the screen.
new MutationObserver(() => {
  for (const choice of document.querySelectorAll("select:not([aria-label])")) {
    const parameter = choice.closest("[data-param-name]")?.dataset.paramName;
    choice.ariaLabel = choice.id === "servers" ? "Server" : parameter ?? "Example or media type";
  }
}).observe(document.getElementById("reference"), { childList: true, subtree: true });
