import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { Boundary } from "./boundary";
import { applyTheme } from "./theme";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/thread.css";
import "./styles/context.css";

applyTheme();
const page = document.getElementById("page");
if (!page) throw new Error("The document has no element with the id 'page'.");
const broken = (
  <main className="gate">
    <h1>The page cannot be shown</h1>
    <p>Your conversations are kept at the server.</p>
    <div className="row"><button type="button" className="button primary" onClick={() => location.reload()}>Load it again</button></div>
  </main>
);
createRoot(page).render(<StrictMode><Boundary instead={broken}><App /></Boundary></StrictMode>);
