// Which back end answers: WebGPU where there is an adapter that is worth it, else the CPU; and why.

const CPU = { bundle: "cpu", name: "CPU (WebAssembly)", adapter: null };

/// `wanted`: "auto", "cpu" or "webgpu". Returns the bundle's folder, names for the page, and the reason.
export async function choose(wanted, files) {
  if (wanted === "cpu") return { ...CPU, reason: "The CPU was asked for." };
  const { adapter, reason } = await findAdapter();
  if (!adapter) return { ...CPU, reason };
  const { vendor, architecture, device, description } = adapter.info ?? {};
  const name = [description || device, vendor, architecture].filter(Boolean).join(", ") || "unnamed adapter";
  if (!files.has("webgpu/rex_web_bg.wasm")) return { ...CPU, reason: `There is a WebGPU adapter (${name}), but this build has no WebGPU program.` };
  const emulated = adapter.info?.isFallbackAdapter || adapter.isFallbackAdapter || /swiftshader|llvmpipe|software/i.test(name);
  if (emulated && wanted !== "webgpu") return { ...CPU, reason: `The WebGPU adapter (${name}) is an emulation, slower than the CPU itself.` };
  return { bundle: "webgpu", name: "WebGPU", adapter: name, reason: name };
}

async function findAdapter() {
  if (!globalThis.isSecureContext) return { adapter: null, reason: "WebGPU needs https or a page from this machine." };
  if (!navigator.gpu) return { adapter: null, reason: "This browser has no WebGPU." };
  try {
    const adapter = await navigator.gpu.requestAdapter();
    return { adapter, reason: adapter ? null : "WebGPU is there, but it found no graphics adapter." };
  } catch (error) {
    return { adapter: null, reason: `WebGPU failed: ${error.message}` };
  }
}

/// Calls `lost(message)` when the browser takes a device away that is opened from here on.
export function watch(lost) {
  const prototype = globalThis.GPUAdapter?.prototype;
  if (!prototype) return;
  const open = prototype.requestDevice;
  prototype.requestDevice = async function (...options) {
    const device = await open.apply(this, options);
    device.lost.then(({ reason, message }) => lost(message || reason || "no reason given"));
    return device;
  };
}
