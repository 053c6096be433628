// One sum that all workgroups add to, by exchanging its bits with those of the new sum unless another invocation was faster.
// The order of additions is arbitrary. Some invocation succeeds every time, so the loop ends.
alias Total = atomic<u32>;
fn add_to_total(value: f32) {
  var old = atomicLoad(&total[0]);
  loop {
    let exchange = atomicCompareExchangeWeak(&total[0], old, bitcast<u32>(bitcast<f32>(old) + value));
    if (exchange.exchanged) { break; }
    old = exchange.old_value;
  }
}
