// One sum that all workgroups add to, by the adapter's own atomic addition. In which order they do is chance.
alias Total = atomic<f32>;
fn add_to_total(value: f32) { atomicAdd(&total[0], value); }
