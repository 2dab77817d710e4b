// What readers for the web find beneath a URL, in Node.js and in a page alike. A reader gives the
// digest that tests/clients/digests.py gives of the same values.

const CHUNK = 16;

async function digest(type, shape, data) {
  const head = new TextEncoder().encode(`${type} (${shape.join(", ")})\n`);
  const body = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const whole = new Uint8Array(head.length + body.length);
  whole.set(head);
  whole.set(body, head.length);
  const found = new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
  return Array.from(found, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function openArray(url, version) {
  const zarr = await import("zarrita");
  const open = version === 2 ? zarr.open.v2 : zarr.open.v3;
  return [zarr, await open(new zarr.FetchStore(url), { kind: "array" })];
}

async function readWhole(url, version) {
  const [zarr, array] = await openArray(url, version);
  const { data, shape } = await zarr.get(array);
  return digest("<f4", shape, data);
}

// Of each shard a part at a time, so that its index and its chunks are asked for by range.
async function readByRows(url) {
  const [zarr, array] = await openArray(url, 3);
  const [rows, columns] = array.shape;
  const values = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row += CHUNK) {
    const part = await zarr.get(array, [zarr.slice(row, row + CHUNK), null]);
    values.set(part.data, row * columns);
  }
  return digest("<f4", array.shape, values);
}

async function readImage(url) {
  const module = await import("geotiff");
  // What is made for pages is a script, and says what it has in the global scope.
  const { fromUrl } = module.fromUrl ? module : globalThis.GeoTIFF;
  const image = await (await fromUrl(url)).getImage();
  const [values] = await image.readRasters();
  return digest("<u2", [image.getHeight(), image.getWidth()], values);
}

export const readers = {
  zarrita: (url) => readWhole(`${url}/data/sparse.zarr`, 3),
  "zarrita, zarr v2": (url) => readWhole(`${url}/data/sparse2.zarr`, 2),
  "zarrita, shards": (url) => readByRows(`${url}/data/sharded.zarr`),
  "geotiff.js": (url) => readImage(`${url}/data/image.tif`),
};
