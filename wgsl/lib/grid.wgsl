// The number of a workgroup: a dispatch of more than 65,535 workgroups has several rows of them.
fn workgroup_number(id: vec3<u32>, count: vec3<u32>) -> u32 { return id.y * count.x + id.x; }
