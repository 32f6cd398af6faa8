import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The page and the agent are one origin, so no CORS is needed. The name of the host is kept for the server's own check.
const proxy = { "/api": { target: process.env["SAPWOOD_URL"] ?? "http://127.0.0.1:8000", changeOrigin: false } };

export default defineConfig({
  plugins: [react()],
  server: { proxy },
  preview: { proxy },
  // The hook lies beside its own React here; an installed one does not need this.
  resolve: { dedupe: ["react", "react-dom"] },
});
