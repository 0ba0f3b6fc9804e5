import { defineConfig } from "vite";

// Names without hashes and code that is not minified: what is committed can be read, and a change shows as one.
// The server says no-cache, and the page comes from the same machine.
export default defineConfig({
  base: "/static/",
  build: {
    outDir: "../static",
    emptyOutDir: true,
    target: "es2023",
    minify: false,
    cssMinify: false,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // no data: URLs: the page's Content-Security-Policy is default-src 'self'
    rolldownOptions: {
      output: { entryFileNames: "page.js", assetFileNames: "page[extname]", codeSplitting: false },
    },
  },
});
