//! The kernel that CONTRIBUTING.md teaches with. Only tests compile it.

kernels! {
    LESSON:
    scale
}

#[cfg(test)]
mod tests {
    use super::scale;
    use crate::error::Error;
    use crate::gpu::{AdapterChoice, BufferSlice, Commands, Gpu, Listing, words};
    use crate::options::device::DeviceOptions;

    fn read(name: &str) -> String {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        std::fs::read_to_string(path).expect("a file of the repository").replace("\r\n", "\n")
    }

    #[test]
    fn contributing_shows_the_kernel_that_compiles() {
        let contributing = read("CONTRIBUTING.md");
        for (language, file) in [("wgsl", "wgsl/lesson/scale.wgsl"), ("rust", "src/kernels/lesson/scale.rs")]
        {
            let indented: String = format!("```{language}\n{}```\n", read(file))
                .lines()
                .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("   {line}\n") })
                .collect();
            assert!(contributing.contains(&indented), "CONTRIBUTING.md and {file} differ");
        }
    }

    #[test]
    fn values_are_scaled_as_the_reference_says() {
        let listing = pollster::block_on(Listing::new());
        let place = match AdapterChoice::Any.pick(&listing.adapters) {
            Ok(place) => place,
            Err(Error::NoAdapter { .. }) => return println!("skipped: no adapter"),
            Err(error) => panic!("adapters cannot be listed: {error}"),
        };
        let opened = pollster::block_on(Gpu::open(&listing, place, DeviceOptions::default()));
        let gpu = opened.expect("the adapter can be opened");
        let scaled = |values: &[f32], factor: f32| {
            let count = values.len() as u32;
            let buffer = gpu.create_storage("values", u64::from(count) * 4)?;
            let mut commands = Commands::new(&gpu, None);
            pollster::block_on(async {
                gpu.upload_bytes(&buffer, 0, bytemuck::cast_slice(values)).await?;
                scale::encode(&mut commands, BufferSlice::all(&buffer), count, factor)?;
                commands.read(&[(&buffer, 0, u64::from(count) * 4)]).await
            })
        };
        assert_eq!(super::LESSON.iter().map(|kernel| kernel.name()).collect::<Vec<_>>(), ["scale"]);
        for count in [1, 255, 256, 257, 1000] {
            let values: Vec<f32> = (0..count).map(|i| i as f32 * 0.25 - 30.0).collect();
            let parts = scaled(&values, 1.5).expect("the kernel runs");
            let found: Vec<f64> = words::<f32>(&parts[0]).map(f64::from).collect();
            assert_eq!(found, scale::reference(&values, 1.5), "{count} values");
        }
        let buffer = gpu.create_storage("values", 16).expect("a buffer");
        let mut commands = Commands::new(&gpu, None);
        let error = scale::encode(&mut commands, BufferSlice::all(&buffer), 5, 1.5).expect_err("four fit");
        assert!(error.to_string().contains("values"), "{error}");
    }
}
