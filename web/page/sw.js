// Makes the page work without a network: answers from what is kept, and keeps the page's own files. The model and the program
// are put there by files.js, once they are checked.

const STORE = "rex-@VERSION@";

addEventListener("install", (event) => {
  const keep = async () => {
    const cache = await caches.open(STORE);
    const { page } = await (await fetch("manifest.json", { cache: "no-cache" })).json();
    await cache.addAll([...page, "manifest.json"].map((path) => new Request(path, { cache: "no-cache" })));
    await skipWaiting();
  };
  event.waitUntil(keep());
});

addEventListener("activate", (event) => {
  const tidy = async () => {
    const old = (await caches.keys()).filter((name) => name.startsWith("rex-") && name !== STORE);
    await Promise.all(old.map((name) => caches.delete(name)));
    await clients.claim();
  };
  event.waitUntil(tidy());
});

addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || new URL(request.url).origin !== location.origin) return;
  const answer = async () => (await (await caches.open(STORE)).match(request, { ignoreSearch: true })) ?? fetch(request);
  event.respondWith(answer());
});
