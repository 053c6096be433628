// Cooperative matrices of 16 x 16: f16 operands, f32 sums.
const SIDE = 16u;
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Sum = coop_mat16x16<f32, C>;
