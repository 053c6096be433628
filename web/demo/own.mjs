// Vectors of the visitor's own, chosen or dropped.

/** Calls `open` with a file that is dropped anywhere on the page, or chosen with the button. */
export function files(input, veil, open) {
  let depth = 0;
  const hasFiles = (event) => event.dataTransfer?.types.includes('Files');
  const show = (by) => {
    depth = by === 0 ? 0 : depth + by;
    veil.hidden = depth <= 0;
  };
  addEventListener('dragenter', (event) => hasFiles(event) && show(1));
  addEventListener('dragleave', (event) => hasFiles(event) && show(-1));
  // Without this the browser would leave the page and show the file.
  addEventListener('dragover', (event) => hasFiles(event) && event.preventDefault());
  addEventListener('drop', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    show(0);
    const [file] = event.dataTransfer.files;
    if (file) open(file);
  });
  input.addEventListener('change', () => {
    const [file] = input.files;
    // The same file can be chosen again.
    input.value = '';
    if (file) open(file);
  });
}
