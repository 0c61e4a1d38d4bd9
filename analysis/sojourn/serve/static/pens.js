// Two pens with one interface: one draws on a canvas, the other writes SVG.
const FONT = '12px system-ui, "DejaVu Sans", sans-serif';

export class CanvasPen {
  constructor(canvas, width, height) {
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    this.context = canvas.getContext("2d");
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.clearRect(0, 0, width, height);
    this.context.font = FONT;
  }

  rectangle(x, y, width, height, fill) {
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, width, height);
  }

  outline(x, y, width, height, colour) {
    this.context.strokeStyle = colour;
    this.context.lineWidth = 2;
    this.context.strokeRect(x, y, width, height);
  }

  line(x1, y1, x2, y2, colour, width = 1) {
    this.context.strokeStyle = colour;
    this.context.lineWidth = width;
    this.context.beginPath();
    this.context.moveTo(x1, y1);
    this.context.lineTo(x2, y2);
    this.context.stroke();
  }

  // `room`: px; a longer text is cut.
  text(text, x, y, colour, room) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y - 14, room, 20);
    this.context.clip();
    this.context.fillStyle = colour;
    this.context.fillText(text, x, y);
    this.context.restore();
  }
}

const escaped = (text) => String(text).replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
const LETTER = 7; // px

export class SvgPen {
  constructor(width, height, background) {
    this.parts = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12">`];
    this.rectangle(0, 0, width, height, background);
  }

  rectangle(x, y, width, height, fill) {
    this.parts.push(`<rect x="${x.toFixed(2)}" y="${y.toFixed(2)}" width="${width.toFixed(2)}" height="${height.toFixed(2)}" fill="${fill}"/>`);
  }

  outline(x, y, width, height, colour) {
    this.parts.push(`<rect x="${x.toFixed(2)}" y="${y.toFixed(2)}" width="${width.toFixed(2)}" height="${height.toFixed(2)}" fill="none" stroke="${colour}" stroke-width="2"/>`);
  }

  line(x1, y1, x2, y2, colour, width = 1) {
    this.parts.push(`<path d="M${x1.toFixed(2)} ${y1.toFixed(2)}L${x2.toFixed(2)} ${y2.toFixed(2)}" stroke="${colour}" stroke-width="${width}"/>`);
  }

  text(text, x, y, colour, room) {
    this.parts.push(`<text x="${x.toFixed(2)}" y="${y.toFixed(2)}" fill="${colour}">${escaped(String(text).slice(0, Math.floor(room / LETTER)))}</text>`);
  }

  toString() {
    return `${this.parts.join("")}</svg>`;
  }
}
