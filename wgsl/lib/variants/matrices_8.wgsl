// Cooperative matrices of 8 x 8, as Metal has them: f16 operands, f32 sums.
const SIDE = 8u;
alias Left = coop_mat8x8<f16, A>;
alias Right = coop_mat8x8<f16, B>;
alias Sum = coop_mat8x8<f32, C>;
