// The files of the demo: fetched with progress, checked against the manifest, kept by the browser after the first time.

/// The store that the service worker answers from, too.
export const store = (version) => `rex-${version}`;

export class KeptFiles {
  static async open(progress) {
    const response = await fetch("manifest.json");
    if (!response.ok) throw new Error(`manifest.json: the server says ${response.status}; is the folder complete?`);
    const manifest = await response.json();
    // Absent where the page is not served by https or from this machine.
    const cache = globalThis.caches ? await caches.open(store(manifest.version)) : null;
    return new KeptFiles(manifest, cache, progress);
  }

  constructor(manifest, cache, progress) {
    Object.assign(this, { manifest, cache, progress, held: new Map() });
  }

  has(path) {
    return path in this.manifest.files;
  }

  /// All of `paths` at once; `progress(bytes, total)` counts over them.
  async fetch(paths) {
    const total = paths.reduce((sum, path) => sum + this.#entry(path).bytes, 0);
    let bytes = 0;
    this.progress(0, total);
    const advance = (more) => this.progress((bytes += more), total);
    await Promise.all(paths.map(async (path) => this.held.set(path, await this.#bytes(path, advance))));
  }

  /// A fetched file, once.
  take(path) {
    const bytes = this.held.get(path);
    this.held.delete(path);
    return bytes;
  }

  #entry(path) {
    const entry = this.manifest.files[path];
    if (!entry) throw new Error(`${path}: not part of this build`);
    return entry;
  }

  async #bytes(path, advance) {
    const entry = this.#entry(path);
    const kept = await this.cache?.match(path);
    if (kept) {
      const bytes = await read(kept, advance);
      if ((await fault(bytes, entry)) === null) return bytes;
      await this.cache.delete(path);
    }
    let response;
    try {
      response = await fetch(path, { cache: "no-cache" });
    } catch (error) {
      throw new Error(`${path}: could not be fetched (${error.message}); is the network there?`);
    }
    if (!response.ok) throw new Error(`${path}: the server says ${response.status}`);
    const bytes = await read(response, kept ? () => {} : advance);
    const wrong = await fault(bytes, entry);
    if (wrong) throw new Error(`${path} is damaged: ${wrong}. Reload to fetch it again; if that does not help, build the page again.`);
    // A full disk must not keep the page from working.
    await this.cache?.put(path, new Response(bytes)).catch(() => {});
    return bytes;
  }
}

async function read(response, advance) {
  const parts = [];
  let length = 0;
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    length += value.length;
    advance(value.length);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/// What is wrong with a file; null where nothing is.
async function fault(bytes, { bytes: length, sha256 }) {
  if (bytes.length !== length) return `it has ${bytes.length} bytes instead of ${length}`;
  if (!globalThis.crypto?.subtle) return null;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const found = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return found === sha256 ? null : "its checksum is wrong";
}
