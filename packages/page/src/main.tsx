import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { applyTheme } from "./theme";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/thread.css";
import "./styles/context.css";

applyTheme();
const page = document.getElementById("page");
if (!page) throw new Error("The document has no element with the id 'page'.");
createRoot(page).render(<StrictMode><App /></StrictMode>);
