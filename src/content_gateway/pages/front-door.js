// The front door's commands name the address that the reader has come to.

for (const place of document.querySelectorAll("[data-origin]")) {
  place.textContent = location.origin;
}
