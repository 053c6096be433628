// Mouse, touch and keyboard on a canvas: what a visitor does, as moves, zooms and choices.

/** A pointer that moved less has clicked, in pixels. */
const STILL = 5;
const STEP = 60;
const ZOOM = 1.4;

export function gestures(canvas, { move, zoom, fit, hover, leave, choose }) {
  const pointers = new Map();
  let travelled = 0;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const spread = () => {
    const [[ax, ay], [bx, by]] = [...pointers.values()];
    return { size: Math.hypot(ax - bx, ay - by), x: (ax + bx) / 2, y: (ay + by) / 2 };
  };

  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    if (pointers.size === 0) travelled = 0;
    pointers.set(event.pointerId, place(event));
  });
  canvas.addEventListener('pointermove', (event) => {
    const [x, y] = place(event);
    const last = pointers.get(event.pointerId);
    if (!last) {
      if (event.pointerType === 'mouse') hover(x, y);
      return;
    }
    const before = pointers.size === 2 ? spread() : undefined;
    pointers.set(event.pointerId, [x, y]);
    travelled += Math.abs(x - last[0]) + Math.abs(y - last[1]);
    if (pointers.size === 1 && travelled > STILL) move(x - last[0], y - last[1]);
    if (!before) return;
    const after = spread();
    move(after.x - before.x, after.y - before.y);
    if (before.size > 0) zoom(after.size / before.size, after.x, after.y);
  });
  const up = (event) => {
    const wasAlone = pointers.size === 1;
    if (!pointers.delete(event.pointerId) || event.type === 'pointercancel') return;
    if (wasAlone && travelled <= STILL) choose(...place(event));
    // The second of two fingers does not click when it leaves.
    else travelled = Infinity;
  };
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
  canvas.addEventListener('pointerleave', leave);
  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    const pixels = event.deltaY * (event.deltaMode === 1 ? 30 : 1);
    zoom(Math.exp(-Math.max(-300, Math.min(300, pixels)) / 300), ...place(event));
  }, { passive: false });

  const keys = {
    ArrowLeft: () => move(STEP, 0),
    ArrowRight: () => move(-STEP, 0),
    ArrowUp: () => move(0, STEP),
    ArrowDown: () => move(0, -STEP),
    '+': () => zoom(ZOOM),
    '=': () => zoom(ZOOM),
    '-': () => zoom(1 / ZOOM),
    0: fit,
    Home: fit,
  };
  canvas.addEventListener('keydown', (event) => {
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
}
