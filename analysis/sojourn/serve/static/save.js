// Charts as SVG or PNG, and the requests of the view as Parquet.
import { ask } from "./api.js";
import { picture } from "./charts.js";

export function save(content, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const bytes = (address) => Uint8Array.from(atob(address.slice(address.indexOf(",") + 1)), (letter) => letter.charCodeAt(0));

export async function savePicture(id, type) {
  const content = await picture(id, type);
  if (type === "svg") save(content, `sojourn-${id}.svg`, "image/svg+xml");
  else save(bytes(content), `sojourn-${id}.png`, "image/png");
}

export const saveRequests = async (query) => save(await ask("requests", query, { as: "blob" }), "sojourn-requests.parquet");
