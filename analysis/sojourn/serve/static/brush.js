// A transparent cover over the plot area of a chart: dragging selects, the incident and the selection are marked on it.
import { HEIGHTS, PADDING, widthOf } from "./charts.js";

const LEAST = 4; // px: a shorter drag is a click

export class Cover {
  constructor(id, { isArea, onSelect, onMove }) {
    this.id = id;
    this.isArea = isArea;
    this.onSelect = onSelect;
    this.onMove = onMove;
    this.element = document.createElement("div");
    this.element.className = "cover";
    this.drag = document.createElement("div");
    document.getElementById(id).append(this.element);
    this.element.addEventListener("pointerdown", (event) => this.begin(event));
    this.element.addEventListener("pointermove", (event) => this.onMove?.(this.position(event).x));
  }

  place() {
    const { style } = this.element;
    style.left = `${PADDING.left}px`;
    style.top = `${PADDING.top}px`;
    style.width = `${widthOf(this.id)}px`;
    style.height = `${HEIGHTS[this.id]}px`;
  }

  // Parts of the width and of the height, from the left and from the top.
  position(event) {
    const box = this.element.getBoundingClientRect();
    const part = (value) => Math.min(Math.max(value, 0), 1);
    return { x: part((event.clientX - box.left) / box.width), y: part((event.clientY - box.top) / box.height) };
  }

  begin(event) {
    if (event.button !== 0) return;
    event.preventDefault();
    document.getElementById("plots").focus({ preventScroll: true });
    const from = this.position(event);
    this.element.setPointerCapture(event.pointerId);
    this.drag.className = "chosen";
    this.element.append(this.drag);
    const box = (to) => ({
      left: Math.min(from.x, to.x), right: Math.max(from.x, to.x),
      top: this.isArea ? Math.min(from.y, to.y) : 0, bottom: this.isArea ? Math.max(from.y, to.y) : 1,
    });
    const move = (moved) => mark(this.drag, box(this.position(moved)));
    const end = (ended) => {
      this.element.removeEventListener("pointermove", move);
      this.drag.remove();
      const result = box(this.position(ended));
      const size = this.element.getBoundingClientRect();
      if (ended.type === "pointerup" && (result.right - result.left) * size.width >= LEAST) this.onSelect(result);
    };
    this.element.addEventListener("pointermove", move);
    this.element.addEventListener("pointerup", end, { once: true });
    this.element.addEventListener("pointercancel", end, { once: true });
  }

  // `bands`: [{ left, right, top, bottom, className, title }] in parts of the area.
  show(bands) {
    this.element.replaceChildren(...bands.filter((band) => band.right > 0 && band.left < 1).map((band) => {
      const element = document.createElement("div");
      element.className = band.className;
      mark(element, { top: 0, bottom: 1, ...band });
      return element;
    }));
  }
}

function mark(element, { left, right, top, bottom }) {
  element.style.left = `${left * 100}%`;
  element.style.width = `${(right - left) * 100}%`;
  element.style.top = `${top * 100}%`;
  element.style.height = `${(bottom - top) * 100}%`;
}
