import * as ai from "ai";
import { converse } from "./chat.mjs";

await converse(ai);
