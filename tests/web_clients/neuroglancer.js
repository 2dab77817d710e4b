// The body of an async function that opens Neuroglancer's own page with one array, and reads from it
// what it has to draw. What stands in capitals is put in by the test.

const SECONDS = 30;
const side = 160;

async function load() {
  if (document.readyState === "loading")
    await new Promise((resolve) => addEventListener("DOMContentLoaded", resolve));
  // It takes its own server for Python's, which says by the path whose state to show.
  history.replaceState(null, "", "/v/test/");
  const base = document.createElement("base");
  base.href = "/files/";
  document.head.append(base);
  const text = await (await fetch("/files/index.html")).text();
  const index = new DOMParser().parseFromString(text, "text/html");
  for (const each of index.querySelectorAll("link, script")) {
    const element = document.createElement(each.tagName);
    if (each.rel) element.rel = each.rel;
    element[each.src ? "src" : "href"] = "/files/" + each.getAttribute(each.src ? "src" : "href");
    element.async = false;
    const loaded = new Promise((resolve) => (element.onload = resolve));
    document.head.append(element);
    await loaded;
  }
}

// All values, or null while one is not there yet.
function read() {
  const layer = viewer.layerManager.managedLayers[0]?.layer?.renderLayers.find((x) => x.getValueAt);
  if (!layer) return null;
  const values = new Float32Array(side * side);
  for (let row = 0; row < side; row++)
    for (let column = 0; column < side; column++) {
      const value = layer.getValueAt(new Float32Array([row + 0.5, column + 0.5]));
      if (value === undefined || value === null) return null;
      values[row * side + column] = value;
    }
  return values;
}

await load();
viewer.state.restoreState({
  layers: [{ type: "image", name: "t", source: SOURCE }],
  layout: "xy",
  position: [side / 2, side / 2],
  crossSectionScale: 1,
});
const end = performance.now() + SECONDS * 1000;
let values = null;
while (!(values = read()) && performance.now() < end)
  await new Promise((resolve) => requestAnimationFrame(resolve));
if (values) {
  const head = new TextEncoder().encode(`<f4 (${side}, ${side})\n`);
  const whole = new Uint8Array(head.length + values.byteLength);
  whole.set(head);
  whole.set(new Uint8Array(values.buffer), head.length);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
  found.digest = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
} else {
  found.error = "not all was shown in time";
}
