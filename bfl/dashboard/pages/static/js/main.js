// Everything that a page does by itself. Without it pages show the same tables and drawings, standing still.

import { startCharts } from "./charts.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { startMatrix } from "./matrix.js";
import { startNetwork } from "./network.js";
import { load } from "./rounds.js";
import { startSearch } from "./search.js";

startKeys();
startSearch();
startNetwork();
startMatrix();
startCharts();
const needsRounds = document.querySelector("[data-chart]:not([data-chart^=compare]), [data-matrix], #round");
if (needsRounds) load().catch(() => {});
startLive();
