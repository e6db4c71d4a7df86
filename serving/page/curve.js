// Judged quality over publications, as a small drawing with its last point in words.
import { draw, make } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, EDGE] = [260, 90, 34, 8];

// Return nodes for points {version, score, judged}, the oldest first.
export function curve(points) {
  if (!points.length) return [make("p", { class: "faint", text: "No replies were judged yet." })];
  const scores = points.map((point) => point.score);
  let [low, high] = [Math.min(...scores), Math.max(...scores)];
  if (high - low < 0.1) [low, high] = [low - 0.05, high + 0.05];
  const x = (at) => LEFT + (at * (WIDTH - LEFT - EDGE)) / Math.max(points.length - 1, 1);
  const y = (score) => HEIGHT - EDGE - ((score - low) * (HEIGHT - 2 * EDGE)) / (high - low);
  const last = points.at(-1);
  const words = `Version ${last.version}: ${last.score.toFixed(2)} over ${count(last.judged)}`;
  const drawing = draw("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "img",
    "aria-label": `Judged quality over ${points.length} versions. ${words}`,
  });
  for (const score of [low, high]) {
    drawing.append(draw("line", { x1: LEFT, x2: WIDTH - EDGE, y1: y(score), y2: y(score) }));
    const place = { x: LEFT - 5, y: y(score) + 4, "text-anchor": "end" };
    drawing.append(draw("text", place, score.toFixed(2)));
  }
  const line = points.map((point, at) => `${x(at).toFixed(1)},${y(point.score).toFixed(1)}`);
  drawing.append(draw("polyline", { points: line.join(" ") }));
  drawing.append(draw("circle", { cx: x(points.length - 1), cy: y(last.score), r: 3.5 }));
  return [drawing, make("p", { class: "faint", text: words })];
}

function count(judged) {
  return judged === 1 ? "1 reply" : `${judged} replies`;
}
