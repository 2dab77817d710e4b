import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  define: { "process.env.NODE_ENV": '"production"', "process.env": "{}", global: "globalThis" },
  build: { chunkSizeWarningLimit: 20000, sourcemap: false },
  esbuild: { jsx: "automatic" },
});
