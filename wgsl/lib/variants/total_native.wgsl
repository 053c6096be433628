// One sum that all workgroups add to, by the adapter's atomic addition. The order of additions is arbitrary.
alias Total = atomic<f32>;
fn add_to_total(value: f32) { atomicAdd(&total[0], value); }
