import * as ai from "ai7";
import { converse } from "./chat.mjs";

await converse(ai);
