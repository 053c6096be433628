// Cooperative matrices of signed bytes, 16 x PRODUCT and PRODUCT x 16, with sums in 32-bit integers. WGSL cannot name them: these stand in their
// place, and the compiler's byte_matrices.rs exchanges them. So integers go in and sums come out as the bits of floats.
const SIDE = 16u;
alias Left = coop_mat16x16<f32, A>;
alias Right = coop_mat16x16<f32, B>;
alias Sum = coop_mat16x16<f32, C>;
