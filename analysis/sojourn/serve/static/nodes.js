// Elements of the page, made from texts alone: a text of a log is never markup.
export const node = (name, textContent, className = "") => Object.assign(document.createElement(name), { textContent, className });

// A table with these headings, and its body.
export function tableOf(headings) {
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const heading of headings) head.append(Object.assign(node("th", heading), { scope: "col" }));
  return { table, body: table.createTBody() };
}

export const rowHeading = (text) => Object.assign(node("th", text, "text"), { scope: "row" });
